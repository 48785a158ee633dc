// Where a model runs: --device and what belongs to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/flags.h"
#include "infer/machines/machines.h"

namespace folio::apps {

/// --threads, --device, --gpu-layers, --cache-memory and --fast. What is said of a GPU where there is none is wrong
/// usage.
void add_machine_flags(Flags& app, infer::MachineOptions& flags);

/// The number of bytes that a flag's text such as 512M or 2GiB specifies: at least 1, in units of 1024. Throws
/// core::UsageError, which names the flag.
[[nodiscard]] uint64_t bytes_of(const char* flag, const std::string& text);

/// Thrown while flags are parsed, for --device list.
struct CallForDevices {};
/// A line for each GPU: how --device names it, its name, its memory, and the driver. Throws core::Error if there is
/// none.
void print_devices();

/// A line that is written over at each percent of the weights that are on the GPU.
[[nodiscard]] std::function<void(uint64_t done, uint64_t total)> progress_line();

}  // namespace folio::apps
