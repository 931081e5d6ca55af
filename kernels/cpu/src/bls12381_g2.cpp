#include "group_ops.h"

namespace dp {
const GroupOps BLS12381_G2 = make_group_ops<Bls12381Tower, Bls12381::Fq2, Bls12381Tower::Fq2>("bls12381", "g2");
}
