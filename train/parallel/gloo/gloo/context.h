// Stands for Gloo's header, which LibTorch's wheel lacks: what ProcessGroupGloo.hpp names. Only pointers are passed.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
