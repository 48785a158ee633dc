// Stands for Gloo's header, which LibTorch's wheel lacks: ProcessGroupGloo.hpp has pointers to these classes.
#pragma once

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
