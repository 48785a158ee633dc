// A scope guard for autocast to bfloat16.
#pragma once

#include <ATen/autocast_mode.h>

namespace folio::train {

/// If `on`, LibTorch computes matrix products in bfloat16 while this object exists.
class Autocast {
 public:
  Autocast(bool on, torch::Device device) : on_(on), type_(device.type()) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  at::DeviceType type_;
};

}  // namespace folio::train
