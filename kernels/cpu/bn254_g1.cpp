#include "curve/curves.h"
#include "group_ops.h"

namespace dp {
const GroupOps BN254_G1 = make_group_ops<Bn254, Bn254::Fq>("bn128", "g1");
}
