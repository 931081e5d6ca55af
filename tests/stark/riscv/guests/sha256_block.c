// SHA-256 by the host call.
#define PRECOMPILE
#include "sha256.c"
