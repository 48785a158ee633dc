#include "infer/cuda/numbers.h"
