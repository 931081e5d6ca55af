#include "curve/curves.h"
#include "field_ops.h"

namespace dp {
const FieldOps BLS12381_FQ = make_field_ops<Bls12381::Fq>("bls12381.fq");
}
