// Flags that select where a model runs: threads, shards and GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/flags.h"
#include "infer/machines/machines.h"

namespace folio::apps {

/// Adds --threads, --shards, --device, --gpu-layers, --cache-memory and --fast. Parsing throws core::UsageError if a
/// flag that needs a GPU is given without --device cuda.
void add_machine_flags(Flags& app, infer::MachineOptions& flags);

/// Parses a size such as 512M or 2GiB, with units that are powers of 1024, and returns the number of bytes, at least 1.
/// If `text` is not such a size, throws core::UsageError that names `flag`.
[[nodiscard]] uint64_t bytes_of(const char* flag, const std::string& text);

/// Thrown when `--device list` is parsed, so that the program calls print_devices().
struct CallForDevices {};
/// Prints a line per GPU: its value for --device, model, memory, compute capability and driver. Throws core::Error if
/// there is no GPU.
void print_devices();

/// Returns a callback that shows on stderr, in one rewritten line, the percentage of weights copied to the GPU.
[[nodiscard]] std::function<void(uint64_t done, uint64_t total)> progress_line();

}  // namespace folio::apps
