// Stub of a Gloo header that LibTorch's wheel lacks. ProcessGroupGloo.hpp uses pointers to these classes.
#pragma once

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
