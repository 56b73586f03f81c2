#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "transforms/op/tensor.h"
#include "transforms/user/carya_op.h"

namespace carya::transforms {

/// An operation of a user's own, from a shared library (carya_op.h). It lives as long as the process: a library is never
/// closed. Immutable. Threads: thread-safe, as far as the library keeps what its header says.
class UserLibrary {
 public:
  /// Load the library at `path`, an absolute one. Its code runs in this process. Errors: kNotFound, kUnsupported (no
  /// library, or none of this interface's version), kInvalidArgument (its name or revision cannot be).
  static Result<std::shared_ptr<const UserLibrary>> load(const std::string& path);

  const std::string& name() const { return name_; }
  /// What it was compiled from, or a hash of the file: 32 hexadecimal digits.
  const std::string& digest() const { return digest_; }
  std::uint32_t revision() const { return op_->revision; }
  bool is_random() const { return op_->random != 0; }
  const carya_op& functions() const { return *op_; }

  /// The result of an input like `in`. `state` (null: it is not asked for) gets what the library keeps for run().
  /// Errors: kInvalidArgument with the library's reason, or that its answer is none.
  Result<TensorSpec> plan(const std::string& parameters, const TensorSpec& in,
                          std::shared_ptr<void>* state = nullptr) const;

 private:
  explicit UserLibrary(const carya_op* op) : op_(op), name_(op->name) {}

  const carya_op* op_;
  std::string name_;
  std::string digest_;
};

/// Make a library known to pipelines of this process under its name and digest. Errors: those of load();
/// kInvalidArgument, if another one of this name and digest is known with another revision.
Result<std::shared_ptr<const UserLibrary>> add_user_library(const std::string& path);
/// The library of this name and digest. Errors: kNotFound with how to load it. Where `look_in_environment()` was
/// called, the libraries that CARYA_OPS lists are loaded when one is not known.
Result<std::shared_ptr<const UserLibrary>> find_user_library(std::string_view name, std::string_view digest);
/// From now on also look at the variable CARYA_OPS: paths with ':' between them. For processes that run a user's own code
/// anyway; a daemon or a worker must not.
void look_in_environment();

/// A library's reason for a failure.
std::string reason_of(const char (&reason)[CARYA_OP_REASON + 1]);
/// A spec as the interface has it, and back. Requires: at most CARYA_OP_DIMENSIONS_MAX dimensions.
carya_tensor to_interface(const TensorSpec& spec);

}  // namespace carya::transforms
