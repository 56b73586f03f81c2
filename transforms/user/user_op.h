#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transforms/op/op.h"
#include "transforms/op/params.h"
#include "transforms/user/library.h"

namespace carya::transforms {

/// An operation of a user's own, from a library that this process has loaded. It takes decoded pictures and arrays, one
/// field at a time; without `fields` it takes `image`. Its name in plans, labels and random numbers is the library's.
class UserOp final : public Op {
 public:
  /// Errors: as any op's, and kNotFound if no such library is loaded.
  static Result<std::unique_ptr<Op>> parse(Params& params);
  UserOp(Json::Object canonical, std::shared_ptr<const UserLibrary> library, std::string parameters,
         std::optional<std::vector<std::string>> fields);

  Status infer(std::vector<FieldState>& fields, std::vector<std::size_t>& indices) const override;
  bool takes(const std::string& field) const;
  const UserLibrary& library() const { return *library_; }
  /// The text of a JSON object.
  const std::string& parameters() const { return parameters_; }

 private:
  std::shared_ptr<const UserLibrary> library_;
  std::string parameters_;
  std::optional<std::vector<std::string>> fields_;
};

}  // namespace carya::transforms
