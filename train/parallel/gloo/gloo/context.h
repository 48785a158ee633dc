// Stub of a Gloo header that LibTorch's wheel lacks: the declarations that ProcessGroupGloo.hpp uses.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
