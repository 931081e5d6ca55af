// ECDSA with products modulo the field's and the group's order by the host calls.
#define PRECOMPILE
#include "ecdsa.c"
