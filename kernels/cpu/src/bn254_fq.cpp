#include "curve/curves.h"
#include "field_ops.h"

namespace dp {
const FieldOps BN254_FQ = make_field_ops<Bn254::Fq>("bn254.fq");
}
