#include "transforms/op/op.h"

#include <algorithm>

namespace carya::transforms {
namespace {

void append_call(std::string& out, std::string_view name, const Json::Object& parameters);

// Python's spelling of a parameter: True, None, [224, 224]; an op as a call.
void append_python(std::string& out, const Json& value) {
  if (value.is_null()) {
    out += "None";
  } else if (const bool* truth = value.get<bool>()) {
    out += *truth ? "True" : "False";
  } else if (const auto* array = value.get<Json::Array>()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ", ";
      append_python(out, (*array)[i]);
    }
    out += ']';
  } else if (const Json* op = value.find("op"); op && op->get<std::string>()) {
    append_call(out, *op->get<std::string>(), *value.get<Json::Object>());
  } else {
    value.append_text(out);
  }
}

void append_call(std::string& out, std::string_view name, const Json::Object& parameters) {
  out += name;
  out += '(';
  bool first = true;
  for (const auto& [key, value] : parameters) {
    if (key == "op" || value.is_null()) continue;  // what was left alone only clutters the line
    if (!first) out += ", ";
    first = false;
    out += key + "=";
    append_python(out, value);
  }
  out += ')';
}

}  // namespace

Op::Op(std::string name, OpTraits traits, Json::Object canonical) : name_(std::move(name)), traits_(traits) {
  append_call(text_, name_, canonical);
  json_ = Json(std::move(canonical)).text();
}

std::unexpected<Error> Op::refuse(const FieldState& field, std::string_view allowed) const {
  return fail(Code::kInvalidArgument, name() + ": " + field.spec.name + " is " + field.spec.to_string() +
                                          "; give " + std::string(allowed));
}

std::string field_names(const std::vector<FieldState>& fields) {
  std::string out;
  for (const FieldState& field : fields) out += (out.empty() ? "" : ", ") + field.spec.name;
  return out;
}

Result<std::vector<std::size_t>> find_fields(std::string_view op_name, const std::vector<FieldState>& fields,
                                             const std::vector<std::string>& names) {
  std::vector<std::size_t> indices;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(fields.begin(), fields.end(), [&](const FieldState& f) { return f.spec.name == name; });
    if (found == fields.end())
      return fail(Code::kInvalidArgument, std::string(op_name) + ": fields: got " +
                                              Json(name.substr(0, 60)).excerpt() + "; give names among " +
                                              field_names(fields));
    indices.push_back(static_cast<std::size_t>(found - fields.begin()));
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

Result<std::vector<std::size_t>> fields_or_main(std::string_view op_name,
                                                const std::vector<FieldState>& fields,
                                                const std::optional<std::vector<std::string>>& names) {
  if (names) return find_fields(op_name, fields, *names);
  const auto main =
      std::find_if(fields.begin(), fields.end(), [](auto& f) { return f.spec.name == kMainField; });
  if (main == fields.end())
    return fail(Code::kInvalidArgument,
                std::string(op_name) +
                    ": fields is missing and there is no \"image\"; give fields= with names among " +
                    field_names(fields));
  return std::vector<std::size_t>{static_cast<std::size_t>(main - fields.begin())};
}

}  // namespace carya::transforms
