// Stands for Gloo's header, which LibTorch's wheel lacks: what ProcessGroupGloo.hpp includes and does not name.
#pragma once
