#include "group_ops.h"

namespace dp {
const GroupOps BLS12381_G1 = make_group_ops<Bls12381Tower, Bls12381::Fq, Bls12381Tower::Fq>("bls12381", "g1");
}
