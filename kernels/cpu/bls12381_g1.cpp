#include "curve/curves.h"
#include "group_ops.h"

namespace dp {
const GroupOps BLS12381_G1 = make_group_ops<Bls12381, Bls12381::Fq>("bls12381", "g1");
}
