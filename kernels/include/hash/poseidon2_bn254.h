// Poseidon2 over the scalar field of BN254, of width 3: eprint 2023/323, x^5, 8 full and 56 partial rounds. Round constants come
// from the Grain LFSR (tests/support/plain_poseidon2_bn254.py makes them anew), both linear layers are the paper's.
//
// A state is in Montgomery form. Digests, and a transcript's state, are numbers below r, of four words. Words of 64 bits go
// three into an element, each at a place of its own, so that no two lists of words of one length give the same elements.
#pragma once
#include "field/fp.h"
#include "field/goldilocks.h"
#include "hash/poseidon2_bn254_sizes.h"

namespace dp {
namespace poseidon2_bn254 {

using Fr = Fp<Bn254FrParams>;

#if DP_DEVICE && !defined(DP_EMULATE)
#define DP_BN254_CONSTANTS __device__ __constant__
#else
#define DP_BN254_CONSTANTS static const
#endif

// In Montgomery form. Of the full rounds, 3 each, the first four rounds before the partial ones.
DP_BN254_CONSTANTS u64 FULL_CONSTANTS[2 * HALF_FULL * WIDTH * WORDS] = {
    0xD722B5D4CE14484Cull, 0x28FDF04EF431D35Full, 0x0AF406C6D8A909C9ull, 0x2D545BA8D234EFA0ull,
    0x55A2A5FC348A5584ull, 0xD73CD95929E45265ull, 0x66E861C483269614ull, 0x040E6777B2B473E0ull,
    0x0A830EC1F8020B2Aull, 0x8197A4F899305E94ull, 0x3C2E69437AC4428Full, 0x17ECEEF02F845328ull,
    0xA51D3E5BC97D6F8Aull, 0x054FFE26DC378DEFull, 0xD8440CEF8ABE9C97ull, 0x005CBB47536245D6ull,
    0x042CDBB0E05E41ADull, 0xC2BBC7D386048513ull, 0x24521F75749E5203ull, 0x2B353C0D0EB46678ull,
    0x452E08A370279600ull, 0x8A72C098F325F46Cull, 0x6C50AE68B9AA1466ull, 0x0485044559C97364ull,
    0x0AD536BDE225DF77ull, 0x618246AB1B44EA62ull, 0x9E92BF71D6D89F5Full, 0x143C32BC7134FBFFull,
    0xB88574FAAFD66BD9ull, 0x009EFF80FE2D1C84ull, 0xD8E71ADB450D4AFAull, 0x2EDA25B9568F5057ull,
    0x25725962246FE49Eull, 0xED9F756A0D2AC3D7ull, 0x3AE3C2D34AC9ABE4ull, 0x0190CDB5E0B6B88Cull,
    0xE7ADC99750FD3FE6ull, 0xB747A57693FC3913ull, 0x249A1E43051CA986ull, 0x1307EB2ED23A561Bull,
    0x9615931FF79536D3ull, 0x24525C947A923C33ull, 0x467AE014F2988FF5ull, 0x2C023F4762B95029ull,
    0x92D843F6E7C528E0ull, 0x0CC5A90EE754E747ull, 0x191E21B2F55F9236ull, 0x28F936F9D4331F4Bull,
    0x8E8DB2DCAE74B354ull, 0x18D52D0C368291C9ull, 0x5EC6273241AB4B08ull, 0x1284ED5F098EABD3ull,
    0x1FBE709EFC6734E0ull, 0x84A4299630BC8815ull, 0x9BF5E155B0E2C32Eull, 0x08E211C4F350B3EFull,
    0x9423FFA0B7C9731Aull, 0xA70300ACEAD2EB93ull, 0x1526253741D22C44ull, 0x2FAE94ED023F12E0ull,
    0x4B5FF60265185AB2ull, 0xBEA20E3F0D9953E3ull, 0x0DFCBF8F224890C4ull, 0x14BCCF4609C0EFFDull,
    0xE4CAB4612DA2E433ull, 0x11E05277A8D64CE1ull, 0xBBCAA97BC7ED715Eull, 0x0ECFCC925BCA9FC1ull,
    0xDFB8951370941941ull, 0x960042E3CE168BE1ull, 0x6D54135D6CABDBBBull, 0x0221B16BE464A69Aull,
    0x3918CF0B20A0F689ull, 0xECD0D188622AF6DBull, 0x4E1B574C8A26E246ull, 0x2D85FBE5A0D6FA59ull,
    0x0FC72998C5B60D86ull, 0x2A5351528FDC2A51ull, 0x7ADEC22B4EABD232ull, 0x0A08535EF111A956ull,
    0x0DF1D9E2CA492B78ull, 0x4A01DB83A8D99AD4ull, 0xEB2BCB74CBF1383Dull, 0x2E9984824B7A3011ull,
    0x267CC7A6C20B3C54ull, 0x619AD1E0D0E2FDCAull, 0x9668FC44CFE99DA2ull, 0x15F960D8396BC175ull,
    0x17E87A80F8B105CAull, 0x666E49D9FA2042EAull, 0xC40330F54734C297ull, 0x2A656DED4524E0DCull,
    0x1A8A41EA3FA848FDull, 0x68C01B2742AEA9AAull, 0xC5FF17A405F7ACADull, 0x05932F8C2731E92Aull};

// Of the partial rounds, for the first element alone.
DP_BN254_CONSTANTS u64 PARTIAL_CONSTANTS[PARTIAL * WORDS] = {
    0x622ADAA22BC0A5CFull, 0xD1C5D8543B6EAF8Aull, 0x330F3ECAD0F62457ull, 0x1007CFFF156DE150ull,
    0x7FCD7A7B51A3A11Aull, 0xF3EFFC9D64057C75ull, 0xBC8A4EC31300CB0Dull, 0x30322F4F7DCAD9A8ull,
    0x475CD06622B141D5ull, 0x5D64D8CF28285FAEull, 0x6E095FFE4D284A15ull, 0x2643235C9B4CD1C2ull,
    0x7C0B0359A212DAF5ull, 0xD75ADA0D5AF14F5Dull, 0xA4345628061EE257ull, 0x17B7C8B84E8AE776ull,
    0x980C58B1742B36F2ull, 0xA565F2CADFE11248ull, 0x67EF3BEA07C3028Cull, 0x2C28234902B5FB1Aull,
    0xBDE1186C2D096AB6ull, 0xE1703272EFE9A103ull, 0xBC6F3904BA8072B1ull, 0x29302878A3F0234Cull,
    0x3EE7BA77B4128E99ull, 0xC51C0395C6A895F6ull, 0xCCBF96F2605CBE98ull, 0x1E22E2745CA3AFCAull,
    0x1D3AD6691C835661ull, 0xFB5F95A2A21FAB6Cull, 0xC1659970E72C8DCEull, 0x295474529436CFB0ull,
    0x23328B4257F54073ull, 0x204E4F688AF8E279ull, 0xA956BF6FE8162F7Bull, 0x2F5D17DEE06B555Aull,
    0x4A3ADA744A172D09ull, 0x0C507C89BE5AD794ull, 0x7C7F8BD5C89C352Cull, 0x1D2576A41F2C7644ull,
    0x9BD727E302EEB228ull, 0xDF6D767C8B1EA1F2ull, 0xCA141180F54307D2ull, 0x2505C0D6236CAD38ull,
    0xB1E10961954C97C6ull, 0x3C4F0682D3F9FEF2ull, 0x0C80D2CF71008C30ull, 0x0E15691F05A18DCDull,
    0xEFFE6EBD635F9952ull, 0xEB59BC51E7671C93ull, 0x96411255E253CBDEull, 0x12C2C08937FE27C9ull,
    0xB874C9413A1317C4ull, 0x16E2F4333112A9A7ull, 0xC706227F94375E0Aull, 0x17541AF3EE77ED31ull,
    0x1C8578D3964189AFull, 0x9606117DD33043F7ull, 0x47321DA7576A465Full, 0x1D221ECE05653649ull,
    0x4FE812537544679Eull, 0x22C277F99FAB065Dull, 0x559C1F97037B2A59ull, 0x0D335D8CB64C1DEEull,
    0xFCA74A7911772AD0ull, 0x7794EA0B1AE81A44ull, 0x8599B6205C8410DBull, 0x14A9BC1904FDB4E8ull,
    0x27C775F5459458C7ull, 0x8328D2C0EB439F06ull, 0x40673F0D734180D6ull, 0x15277115E92859B9ull,
    0xAF861AF4A830E3CBull, 0x9DAC43C8663D4A43ull, 0x667D238C169C8DADull, 0x1FD335E93980C88Full,
    0x76CD7452DABEE7BEull, 0x179F9669B3470C47ull, 0xA2BCC37A7E3E4C39ull, 0x00C438F3AE0DA84Full,
    0xADDEE77E65896478ull, 0xF76501D71142693Bull, 0xA2BCEA588C00E94Aull, 0x01722A620D1FF415ull,
    0x52E1361A9C23E520ull, 0x4DA1BC258D71D221ull, 0x4833163A6BD5021Full, 0x0454FD58808E54B0ull,
    0xA34EEC98AF509057ull, 0x2E045FE456FC3D06ull, 0x90BB41281158C2A0ull, 0x0F8CF45C26351255ull,
    0x243306B131DCC1C4ull, 0xD17D829D08381589ull, 0xE0C512C5E114798Eull, 0x003D28D510B59FB3ull,
    0x25B75C234F6444FBull, 0xEB353C51FAE5B32Dull, 0x00FB023DF1F10957ull, 0x2F2711C2A9795A71ull,
    0xFFE40FFD76A3C33Cull, 0x901A3707506B5AC6ull, 0xAE56F79FB1E48843ull, 0x12C0E58CB67B0272ull,
    0x6309182356F1402Dull, 0xB3F95BA486D54D35ull, 0x5A2DDB75A5857B1Aull, 0x28FE9993CC4197A9ull,
    0xB0C450F4A3F6B5B0ull, 0xFB32607C6A8264D2ull, 0xCF4F33C877693CD9ull, 0x1688E51814E723B6ull,
    0x8AD5B2A903C59DE3ull, 0x7D1FD0B54C75B7EDull, 0x7B4A673A13715EB5ull, 0x135AE381C9ABC9EFull,
    0x985DF3DD87E82218ull, 0x8A8F90A81C7B6AFCull, 0x4E5335ED59689DDBull, 0x0D57011FEFB878B7ull,
    0xBD085218FF45C733ull, 0xC45006A6FEBBDE0Cull, 0x4DD8CC03D08175E9ull, 0x01489FD5585E3A76ull,
    0xC298E7CEC2ADF0E4ull, 0xAFF1E5DC96D4E0AAull, 0xF813062AED3650D3ull, 0x141502464AF64218ull,
    0x2A225F3B96EAC478ull, 0xE2C4637710A0C288ull, 0x334A38B2AF702E8Dull, 0x078CFF44E2702E40ull,
    0x160DC4B8ECD11192ull, 0xBFD46405AF580450ull, 0xC859DED4E1574AD2ull, 0x0E24F08EDBBDF10Eull,
    0x91E59108BAB52FBDull, 0x9253AF9DEC62A826ull, 0x7E946B84D0B98EF8ull, 0x2FBB7B1AB2E483EAull,
    0xAC92D3AA83EDA039ull, 0xA46909098E1B86ADull, 0x4FFD74303BC0DD1Aull, 0x023CA89463C8A8F3ull,
    0x3FD205FCEC8CAC00ull, 0x4EB6B7A0E62B9259ull, 0x7A2AEAF511DC0089ull, 0x0C3BEC0390E63B2Cull,
    0xAF9390F4C48910DDull, 0x5D5890C5A83287EBull, 0x72C8B90E7FB055F1ull, 0x1841FF432DEA9C62ull,
    0x69FAA71E59BF0BB5ull, 0x5BC0F299809DF839ull, 0x270E1A316C468E1Cull, 0x29A11242D6147416ull,
    0x8972B665B65FDC48ull, 0x5C9C56F94EDD199Full, 0x7655C00B06C983AEull, 0x0B0F3AB31E51C321ull,
    0xA060EA214656C733ull, 0x3E03EAF6FCFC3711ull, 0x1283ED55768E5A4Eull, 0x1D52067C7B3ED73Bull,
    0xD3E688C7184334A4ull, 0x3300EE2A8B440D8Eull, 0x09CB5CABEB30BC1Aull, 0x10B468936B68A8C9ull,
    0xD905C6A45919C64Dull, 0x42C29960A1ECB91Dull, 0xDB15563A04A42F1Eull, 0x222DA53FD2FF55BEull,
    0x795621E7BAF9856Aull, 0xBD06EAB74A37377Full, 0xD69262B4482DFAB7ull, 0x06336772940098E7ull,
    0xB15532DC0BBC434Aull, 0x935EC462C1914F69ull, 0xD263EDC8605FE849ull, 0x201A1B25DCCE9527ull,
    0x7F9233DB7D37CC55ull, 0x39E290933FA1E7CBull, 0x4B7F45BFCB35976Aull, 0x095F02FF83F0C587ull,
    0xF4EB6A6839D344C8ull, 0x61D3173FCC408889ull, 0x358B1B65754BC487ull, 0x041A46D8F8D020DAull,
    0x76955850EEA956D1ull, 0x329BB5C33F7CE928ull, 0xB89BBC088B21B882ull, 0x1D8400CDDBF59315ull,
    0xE7AFA14D64087D30ull, 0x7E1D1F05521F9766ull, 0xDA7886CA0435F6C2ull, 0x162043960C90400Dull,
    0x2406277F2EFD539Cull, 0x7619C402BF80B5EEull, 0x8DF98925B1E02B30ull, 0x29AA9E804F8BA893ull,
    0x61637E664DDA1E31ull, 0x451C6E5727EB3F1Dull, 0x33A1432B3C6BC83Cull, 0x12C1ABFC08D0E74Full,
    0xCC07040FF65773DDull, 0x4C04F1390C2EC344ull, 0xE7E912E6CA1E8523ull, 0x0D8EAFFD17A6BE33ull,
    0xDE8160AA9F9FC719ull, 0x78C44DB32A8900C9ull, 0x60A764E3354FDD17ull, 0x1C20317D24A81952ull,
    0x27A34E474A38F228ull, 0xDC1F7F9C49138197ull, 0x6A7345260FCC6063ull, 0x0FD1C6328C7ED4D2ull,
    0x1A23634F913AF446ull, 0x089C939A6FF10352ull, 0x7BA874EA0250B0FEull, 0x081B59CA4EA4DE4Aull,
    0xF58F374A9CE9FF43ull, 0xFEF4B21E9AAB157Dull, 0x6CB30B885302AEE7ull, 0x25685B31C9911102ull};

DP_HD Fr montgomery(const u64* words) { return Fr::from_words(Words<WORDS>{{words[0], words[1], words[2], words[3]}}); }
// An element from a number of 256 bits, by its words.
DP_HD Fr element(u64 a, u64 b, u64 c, u64 d) { return Fr::from_words(Words<WORDS>{{a, b, c, d}}).to_montgomery(); }
DP_HD Fr element(const u64* words) { return element(words[0], words[1], words[2], words[3]); }
// The number below r, by its words.
DP_HD Words<WORDS> number(const Fr& x) {
  const Fr plain = x.from_montgomery();
  Words<WORDS> words{};
  for (int i = 0; i < Fr::N; ++i) words.w[i * LIMB_BITS / 64] |= (u64)plain.v[i] << (i * LIMB_BITS % 64);
  return words;
}

DP_HD Fr power5(const Fr& x) {
  const Fr square = x.sqr();
  return square.sqr() * x;
}

// Multiplies by circ(2, 1, 1).
DP_HD void external(Fr (&s)[WIDTH]) {
  const Fr sum = s[0] + s[1] + s[2];
  for (int i = 0; i < WIDTH; ++i) s[i] = s[i] + sum;
}

DP_HD void full_round(Fr (&s)[WIDTH], const u64* constants) {
  DP_PRAGMA(unroll)
  for (int i = 0; i < WIDTH; ++i) s[i] = power5(s[i] + montgomery(constants + WORDS * i));
  external(s);
}

// Multiplies by the matrix of ones plus the diagonal 1, 1, 2.
DP_HD void internal(Fr (&s)[WIDTH]) {
  const Fr sum = s[0] + (s[1] + s[2]);
  s[0] = s[0] + sum;
  s[1] = s[1] + sum;
  s[2] = s[2].dbl() + sum;
}

DP_HD void partial_round(Fr (&s)[WIDTH], const u64* constant) {
  s[0] = power5(s[0] + montgomery(constant));
  internal(s);
}

DP_HD void permute(Fr (&s)[WIDTH]) {
  external(s);
  DP_PRAGMA(unroll 1)
  for (int r = 0; r < HALF_FULL; ++r) full_round(s, FULL_CONSTANTS + r * WIDTH * WORDS);
  DP_PRAGMA(unroll 1)
  for (int r = 0; r < PARTIAL; ++r) partial_round(s, PARTIAL_CONSTANTS + r * WORDS);
  DP_PRAGMA(unroll 1)
  for (int r = HALF_FULL; r < 2 * HALF_FULL; ++r) full_round(s, FULL_CONSTANTS + r * WIDTH * WORDS);
}

DP_COLD void raise_to_5(Fr& x, const u64* constant) { x = power5(x + montgomery(constant)); }

// The permutation of numbers, four words each, in place. For code that does much else on a device: it is not inlined, and has
// one element at a time in registers, or else every kernel with a transcript would need twice as many.
DP_COLD void permute_numbers(u64* state) {
  Fr s[WIDTH];
  DP_PRAGMA(unroll 1)
  for (int i = 0; i < WIDTH; ++i) s[i] = element(state + WORDS * i);
  external(s);
  DP_PRAGMA(unroll 1)
  for (int r = 0; r < 2 * HALF_FULL; ++r) {
    if (r == HALF_FULL) {
      DP_PRAGMA(unroll 1)
      for (int k = 0; k < PARTIAL; ++k) {
        raise_to_5(s[0], PARTIAL_CONSTANTS + k * WORDS);
        internal(s);
      }
    }
    DP_PRAGMA(unroll 1)
    for (int i = 0; i < WIDTH; ++i) raise_to_5(s[i], FULL_CONSTANTS + (r * WIDTH + i) * WORDS);
    external(s);
  }
  DP_PRAGMA(unroll 1)
  for (int i = 0; i < WIDTH; ++i) {
    const Words<WORDS> words = number(s[i]);
    for (int k = 0; k < WORDS; ++k) state[WORDS * i + k] = words.w[k];
  }
}

// The capacity before anything else is absorbed: what is hashed, and the number of a message's words.
DP_HD Fr capacity(u64 tag, u64 words) { return element(tag, words, 0, 0); }

// The digest of two others. Its tag lies in the capacity, so that no addition of the input is needed.
DP_HD Words<WORDS> node(u64 tag, const Fr& a, const Fr& b) {
  Fr s[WIDTH] = {a, b, capacity(tag, 0)};
  permute(s);
  return number(s[0]);
}

// Whether an element 0 of a state, seed and nonce before the permutation, has no bit of `mask` in its lowest word.
DP_HD bool works(u64 tag, const u64* seed, u64 nonce, u64 mask) {
  Fr s[WIDTH] = {element(seed), element(nonce, 0, 0, 0), capacity(tag, 0)};
  permute(s);
  return (number(s[0]).w[0] & mask) == 0;
}

// Numbers below MOST p^3 have a quotient below this by p^3, which is r / p^3 rounded down.
constexpr u64 MOST = 0x30644E73725E8B82ull;

// Replaces a number of four words by its quotient by p, and returns the remainder.
DP_HD u64 divide(u64* number) {
  u64 rest = 0;
  for (int i = WORDS - 1; i >= 0; --i) {
    // 2^64 = p + EPSILON: each time that 2^64 goes into the rest the quotient has one more, and the rest EPSILON.
    u64 quotient = rest, high = rest >> 32, low = rest << 32;
    high -= low < rest;
    low -= rest;
    low += number[i];
    high += low < number[i];
    while (high) {
      const u64 more = high * gl::EPSILON;  // the first high is below 2^32 + 1
      quotient += high;
      low += more;
      high = low < more;
    }
    if (low >= gl::P) {
      low -= gl::P;
      ++quotient;
    }
    number[i] = quotient;
    rest = low;
  }
  return rest;
}

// The lowest three digits of a number below r to the base p, uniform for a uniform number. False for one that is refused, which
// is at least MOST p^3: less than one in 2^61.
DP_HD bool digits(const u64* words, u64* out) {
  u64 number[WORDS];
  for (int i = 0; i < WORDS; ++i) number[i] = words[i];
  for (int k = 0; k < 3; ++k) out[k] = divide(number);
  return number[0] < MOST;
}

}  // namespace poseidon2_bn254
}  // namespace dp
