# The target carya_fmt: fmt, compiled once. Source files include <fmt/core.h>, which costs a compiler 0.03 s; the whole
# library in each of them (FMT_HEADER_ONLY) costs 2.5 s, and Debian's shared library would be one more beside a wheel.

find_path(CARYA_FMT_DIR fmt/format-inl.h REQUIRED)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/fmt/format.cc CONTENT [[
// What fmt's own src/format.cc instantiates, which Debian does not ship. Made by cmake/fmt.cmake.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
}
FMT_END_NAMESPACE
]] @ONLY)
add_library(carya_fmt STATIC ${PROJECT_BINARY_DIR}/fmt/format.cc)
target_include_directories(carya_fmt SYSTEM PUBLIC ${CARYA_FMT_DIR})
set_target_properties(carya_fmt PROPERTIES LINKER_LANGUAGE CXX)
