// Shared by all fuzz targets: properties of every reader, and files to read from. A violated property calls abort(),
// which libFuzzer reports as a finding and ctest as a failure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace folio::fuzz {

/// Limit of a single allocation, whatever sizes a small file declares.
inline constexpr size_t kMaxAllocation = size_t{256} << 20U;

/// Defined by each target: reads `input` and checks the reader's properties. Returns true if the input was accepted.
bool take(std::string_view input);

/// Aborts the program with the message `what` unless `holds`.
void check(bool holds, const char* what);

/// Runs `read` and returns true if it doesn't throw. A core::Error is expected for bad input; its message must be one
/// printable line of at most 512 bytes that contains `where`. Other exceptions propagate.
bool accepted(const std::function<void()>& read, const std::string& where);

/// Returns the total bytes allocated since the program started, including freed ones.
[[nodiscard]] size_t allocated_bytes();

/// Reads each byte, so that AddressSanitizer checks the whole view.
void touch(std::span<const std::byte> bytes);
void touch(std::string_view text);

/// Writes a file to a temporary folder, in memory if possible. Returns its path.
std::filesystem::path scratch_file(const std::string& name, std::string_view bytes);
/// Returns the path of such a file, which may not exist; for "", the folder's.
std::filesystem::path scratch_path(const std::string& name);

/// Returns a file's content, read without Folio's code.
std::string file_bytes(const std::filesystem::path& path);

}  // namespace folio::fuzz
