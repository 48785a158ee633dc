#include "infer/interfaces/faster_transformer.h"
