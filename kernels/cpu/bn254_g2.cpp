#include "curve/curves.h"
#include "group_ops.h"

namespace dp {
const GroupOps BN254_G2 = make_group_ops<Bn254, Bn254::Fq2>("bn128", "g2");
}
