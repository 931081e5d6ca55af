// Sums of points by the chord and tangent rule of short Weierstrass curves (SEC 1, 2.2.1), and by the addition law of Ed25519
// (RFC 8032, 5.1.4).
#include "riscv_points.h"

#include <array>

#include "riscv_numbers.h"

namespace dp::riscv {

namespace {

// Numbers below an odd prime, of WORDS words.
template <int WORDS>
class PrimeField {
 public:
  using Number = std::array<u32, WORDS>;

  explicit PrimeField(const Number& modulus) : modulus_(modulus) {}

  static Number small(u32 value) {
    Number out = {};
    out[0] = value;
    return out;
  }

  bool holds(const Number& a) const { return below<WORDS>(a.data(), modulus_.data()); }

  Number multiply(const Number& a, const Number& b) const {
    Number out;
    multiply_add<WORDS>(a.data(), b.data(), nullptr, modulus_.data(), out.data());
    return out;
  }

  // Of any number.
  Number reduce(const Number& a) const { return multiply(a, small(1)); }

  Number add(const Number& a, const Number& b) const {
    Number out;
    const u32 carry = plus(a, b, out);
    if (carry || !holds(out)) minus(out, modulus_, out);
    return out;
  }

  Number subtract(const Number& a, const Number& b) const {
    Number out;
    if (minus(a, b, out)) plus(out, modulus_, out);
    return out;
  }

  // 1 / a, of an a that is not 0: the binary extended Euclidean algorithm (Handbook of Applied Cryptography, 14.61).
  Number inverse(const Number& a) const {
    const Number one = small(1);
    Number u = a, v = modulus_, first = one, second = {};
    while (u != one && v != one) {
      halve(u, first);
      halve(v, second);
      if (below<WORDS>(u.data(), v.data())) {
        minus(v, u, v);
        second = subtract(second, first);
      } else {
        minus(u, v, u);
        first = subtract(first, second);
      }
    }
    return u == one ? first : second;
  }

 private:
  static u32 plus(const Number& a, const Number& b, Number& out) {
    u64 carry = 0;
    for (int i = 0; i < WORDS; ++i) {
      carry += (u64)a[i] + b[i];
      out[i] = (u32)carry;
      carry >>= 32;
    }
    return (u32)carry;
  }

  static bool minus(const Number& a, const Number& b, Number& out) {
    u64 borrow = 0;
    for (int i = 0; i < WORDS; ++i) {
      const u64 difference = (u64)a[i] - b[i] - borrow;
      out[i] = (u32)difference;
      borrow = difference >> 63;
    }
    return borrow != 0;
  }

  static void shift(Number& a, u32 above) {
    for (int i = 0; i < WORDS; ++i) a[i] = a[i] >> 1 | (i + 1 < WORDS ? a[i + 1] : above) << 31;
  }

  // Divide a number that is not 0 by 2 until it is odd, and its factor modulo the prime as often.
  void halve(Number& a, Number& factor) const {
    while (a[0] % 2 == 0) {
      shift(a, 0);
      const u32 above = factor[0] % 2 ? plus(factor, modulus_, factor) : 0;
      shift(factor, above);
    }
  }

  Number modulus_;
};

template <int WORDS>
std::array<u32, WORDS> number_at(const u32* words) {
  std::array<u32, WORDS> out;
  std::copy(words, words + WORDS, out.begin());
  return out;
}

// y^2 = x^3 + a x + b over the field with this modulus.
template <int WORDS>
PointFault weierstrass(const std::array<u32, WORDS>& modulus, const std::array<u32, WORDS>& a, const u32* p, const u32* q,
                       u32* sum) {
  using Field = PrimeField<WORDS>;
  using Number = typename Field::Number;
  const Field f(modulus);
  const Number x1 = number_at<WORDS>(p), y1 = number_at<WORDS>(p + WORDS), zero = {};
  const Number x2 = q ? number_at<WORDS>(q) : x1, y2 = q ? number_at<WORDS>(q + WORDS) : y1;
  for (const Number& coordinate : {x1, y1, x2, y2})
    if (!f.holds(coordinate)) return PointFault::COORDINATE;
  const Number run = q ? f.subtract(x2, x1) : f.add(y1, y1);
  if (run == zero) return PointFault::NO_SUM;
  const Number rise = q ? f.subtract(y2, y1) : f.add(f.multiply(f.multiply(x1, x1), Field::small(3)), a);
  const Number slope = f.multiply(rise, f.inverse(run));
  const Number x3 = f.subtract(f.subtract(f.multiply(slope, slope), x1), x2);
  const Number y3 = f.subtract(f.multiply(slope, f.subtract(x1, x3)), y1);
  std::copy(x3.begin(), x3.end(), sum);
  std::copy(y3.begin(), y3.end(), sum + WORDS);
  return PointFault::NONE;
}

// -x^2 + y^2 = 1 + d x^2 y^2 over the field with this modulus.
PointFault edwards(const std::array<u32, 8>& modulus, const std::array<u32, 8>& d, const u32* p, const u32* q, u32* sum) {
  using Field = PrimeField<8>;
  using Number = Field::Number;
  const Field f(modulus);
  const Number x1 = f.reduce(number_at<8>(p)), y1 = f.reduce(number_at<8>(p + 8));
  const Number x2 = f.reduce(number_at<8>(q)), y2 = f.reduce(number_at<8>(q + 8));
  const Number one = Field::small(1), xx = f.multiply(x1, x2), yy = f.multiply(y1, y2);
  const Number product = f.multiply(f.multiply(xx, yy), d);
  const Number over = f.add(one, product), under = f.subtract(one, product), both = f.multiply(over, under);
  if (both == Number{}) return PointFault::NO_SUM;
  const Number inverse = f.inverse(both);
  const Number cross = f.add(f.multiply(x1, y2), f.multiply(x2, y1));
  const Number x3 = f.multiply(f.multiply(cross, under), inverse);
  const Number y3 = f.multiply(f.multiply(f.add(yy, xx), over), inverse);
  std::copy(x3.begin(), x3.end(), sum);
  std::copy(y3.begin(), y3.end(), sum + 8);
  return PointFault::NONE;
}

using Number256 = std::array<u32, 8>;
using Number384 = std::array<u32, 12>;

constexpr Number256 SECP256K1_P = {0xfffffc2f, 0xfffffffe, 0xffffffff, 0xffffffff,
                                   0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
constexpr Number256 SECP256R1_P = {0xffffffff, 0xffffffff, 0xffffffff, 0, 0, 0, 1, 0xffffffff};
constexpr Number256 SECP256R1_A = {0xfffffffc, 0xffffffff, 0xffffffff, 0, 0, 0, 1, 0xffffffff};  // -3
constexpr Number256 BN254_P = {0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91,
                               0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72};
constexpr Number384 BLS12_381_P = {0xffffaaab, 0xb9feffff, 0xb153ffff, 0x1eabfffe, 0xf6b0f624, 0x6730d2a0,
                                   0xf38512bf, 0x64774b84, 0x434bacd7, 0x4b1ba7b6, 0x397fe69a, 0x1a0111ea};
constexpr Number256 ED25519_P = {0xffffffed, 0xffffffff, 0xffffffff, 0xffffffff,
                                 0xffffffff, 0xffffffff, 0xffffffff, 0x7fffffff};
constexpr Number256 ED25519_D = {0x135978a3, 0x75eb4dca, 0x4141d8ab, 0x00700a4d,
                                 0x7779e898, 0x8cc74079, 0x2b6ffe73, 0x52036cee};

}  // namespace

PointFault add_points(Curve curve, const u32* p, const u32* q, u32* sum) {
  switch (curve) {
    case Curve::SECP256K1:
      return weierstrass<8>(SECP256K1_P, {}, p, q, sum);
    case Curve::SECP256R1:
      return weierstrass<8>(SECP256R1_P, SECP256R1_A, p, q, sum);
    case Curve::BN254:
      return weierstrass<8>(BN254_P, {}, p, q, sum);
    case Curve::BLS12_381:
      return weierstrass<12>(BLS12_381_P, {}, p, q, sum);
    default:
      return edwards(ED25519_P, ED25519_D, p, q, sum);
  }
}

}  // namespace dp::riscv
