// ecdsa.c with the host calls for sums of points, and for products modulo n.
#define POINTS
#include "ecdsa_modular.c"
