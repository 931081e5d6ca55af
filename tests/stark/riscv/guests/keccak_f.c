// keccak.c with the host call for the permutation.
#define PERMUTE keccak_f
#include "keccak.c"
