#include "tests/experiments/33_cuda/lesson_support.h"
