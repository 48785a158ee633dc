// Stub of a Gloo header that LibTorch's wheel lacks. ProcessGroupGloo.hpp includes it and uses nothing from it.
#pragma once
