// Flags that select where a model runs: threads, shards and GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/flags.h"
#include "infer/machines/machines.h"

namespace folio::apps {

/// Adds --threads, --shards, --device, --gpu-layers, --cache-memory and --fast. Parsing throws core::UsageError for a
/// GPU's flag without --device cuda.
void add_machine_flags(Flags& app, infer::MachineOptions& flags);

/// Returns the bytes of a size such as 512M or 2GiB, at least 1; units are powers of 1024. Throws core::UsageError that
/// names the flag.
[[nodiscard]] uint64_t bytes_of(const char* flag, const std::string& text);

/// Thrown by parsing --device list.
struct CallForDevices {};
/// Prints a line per GPU: its name for --device, model, memory, compute capability and driver. Throws core::Error if
/// there is no GPU.
void print_devices();

/// Returns a callback that rewrites a line on stderr with the percentage of weights copied to the GPU.
[[nodiscard]] std::function<void(uint64_t done, uint64_t total)> progress_line();

}  // namespace folio::apps
