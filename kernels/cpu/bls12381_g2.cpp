#include "curve/curves.h"
#include "group_ops.h"

namespace dp {
const GroupOps BLS12381_G2 = make_group_ops<Bls12381, Bls12381::Fq2>("bls12381", "g2");
}
