// Constants for computing expf, shared by the engine's reference, CPU, CUDA and sampler code and by the trainer's fused
// loops. Source: Cephes (Moshier), single/expf.c.
#pragma once

namespace folio::core::exp_constants {

inline constexpr float kLow = -87.3365447504F;  // approximate limit below which e^x is subnormal
inline constexpr float kHigh = 88.3762626647949F;
inline constexpr float kLog2E = 1.44269504088896341F;
inline constexpr float kLn2High = 0.693359375F;  // has few significant bits, so that n * kLn2High is exact
inline constexpr float kLn2Low = -2.12194440e-4F;
inline constexpr float kPolynomial[6] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                         4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};

}  // namespace folio::core::exp_constants
