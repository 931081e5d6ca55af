#include "curve/curves.h"
#include "field_ops.h"

namespace dp {
const FieldOps BLS12381_FR = make_field_ops<Bls12381::Fr>("bls12381.fr");
}
