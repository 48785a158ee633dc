// What all fuzz targets share: the laws that hold for every reader, and files to read from.
// A broken law ends the program with abort(), which libFuzzer takes for a finding and ctest for a failure.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace folio::fuzz {

/// No reader asks for more memory at once, whatever a small file claims.
inline constexpr size_t kMaxAllocation = size_t{256} << 20U;

/// Each target defines it: reads `input` and holds the reader to its laws. True if the input was accepted.
bool take(std::string_view input);

/// Ends the program with `what` unless `holds`.
void law(bool holds, const char* what);

/// Runs `read`. True if it threw nothing; a core::Error is the normal answer to bad input, and its message has to be
/// one printable line of at most 512 bytes that contains `where`. Other exceptions pass: they are findings.
bool accepted(const std::function<void()>& read, const std::string& where);

/// Bytes that were asked for since the program began, whether they were given back or not.
[[nodiscard]] size_t allocated_bytes();

/// Reads each byte, so that AddressSanitizer sees the whole of a view that was handed out.
void touch(std::span<const std::byte> bytes);
void touch(std::string_view text);

/// Writes a file of that name in a folder in memory that goes when the program ends. Returns its path.
std::filesystem::path scratch_file(const std::string& name, std::string_view bytes);
/// The path of such a file, which may not exist; "" gives the folder's.
std::filesystem::path scratch_path(const std::string& name);

/// The whole file, read without any code of Folio's.
std::string file_bytes(const std::filesystem::path& path);

}  // namespace folio::fuzz
