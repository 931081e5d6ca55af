#include "group_ops.h"

namespace dp {
const GroupOps BN254_G2 = make_group_ops<Bn254Tower, Bn254::Fq2, Bn254Tower::Fq2>("bn128", "g2");
}
