#include "curve/curves.h"
#include "field_ops.h"

namespace dp {
const FieldOps BN254_FR = make_field_ops<Bn254::Fr>("bn254.fr");
}
