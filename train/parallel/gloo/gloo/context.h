// Stands for Gloo's header, which LibTorch's wheel lacks: what ProcessGroupGloo.hpp names of it. LibTorch's library has
// the class itself; ours only passes pointers, so nothing of its layout is said here and nothing of it is defined.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
