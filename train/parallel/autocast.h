// LibTorch's autocast, which computes matrix products in bfloat16.
#pragma once

#include <ATen/autocast_mode.h>

namespace folio::train::parallel {

/// Turns autocast on or off while this object exists, and the cache of converted weights with `caches`.
class Autocast {
 public:
  Autocast(bool on, at::DeviceType type, bool caches)
      : type_(type),
        was_on_(at::autocast::is_autocast_enabled(type)),
        was_cached_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, on);
    at::autocast::set_autocast_cache_enabled(caches);
  }
  ~Autocast() {
    if (!was_on_) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, was_on_);
    at::autocast::set_autocast_cache_enabled(was_cached_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType type_;
  bool was_on_, was_cached_;
};

}  // namespace folio::train::parallel
