// The two curves by name: BN254 (alt_bn128, EIP-196) and BLS12-381.
#pragma once
#include "curve/xyzz.h"

namespace dp {

struct Bn254 {
  using Fr = Fp<Bn254FrParams>;
  using Fq = Fp<Bn254FqParams>;
  using Fq2 = Fp2<Fq>;
};

struct Bls12381 {
  using Fr = Fp<Bls12381FrParams>;
  using Fq = Fp<Bls12381FqParams>;
  using Fq2 = Fp2<Fq>;
};

}  // namespace dp
