#include "group_ops.h"

namespace dp {
const GroupOps BN254_G1 = make_group_ops<Bn254Tower, Bn254::Fq, Bn254Tower::Fq>("bn128", "g1");
}
