// Shared by all fuzz targets: checks of errors and memory, and files to read from. A failed check calls abort(), which
// libFuzzer reports as a finding and ctest as a failure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace folio::fuzz {

/// Limit of a single allocation in bytes. Reading a small file that declares huge sizes must not exceed it.
inline constexpr size_t kMaxAllocation = size_t{256} << 20U;

/// Defined by each target: reads `input` and checks the reader's properties. Returns true if the input was accepted.
bool take(std::string_view input);

/// Aborts the program with the message `what` unless `holds`.
void check(bool holds, const char* what);

/// Runs `read` and returns true if it doesn't throw. A core::Error is expected for bad input; its message must be one
/// printable line of at most 512 bytes that contains `where`. Other exceptions propagate.
bool accepted(const std::function<void()>& read, const std::string& where);

/// Total bytes allocated since the program started, including freed ones. replay_main.cpp and libfuzzer_entry.cpp count
/// them.
inline size_t allocated_bytes = 0;

/// Reads each byte, so that AddressSanitizer checks the whole view.
void touch(std::span<const std::byte> bytes);
void touch(std::string_view text);

/// Writes a file to the targets' temporary folder. Returns the file's path.
std::filesystem::path scratch_file(const std::string& name, std::string_view bytes);
/// Returns the path of a file, existing or not, in the targets' temporary folder; if `name` is "", the folder's path.
std::filesystem::path scratch_path(const std::string& name);

/// Returns the contents of a file, read with the standard library instead of Folio's code.
std::string file_bytes(const std::filesystem::path& path);

}  // namespace folio::fuzz
