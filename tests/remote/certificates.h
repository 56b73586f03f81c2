#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "remote/protocol/tls.h"

namespace carya::remote {

/// A folder with what tools/test_ca.sh makes; removed at the end.
class Certificates {
 public:
  Certificates() {
    std::string name = (std::filesystem::temp_directory_path() / "carya_ca_XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    CHECK(std::system(
              (std::string(CARYA_TEST_CA) + " " + folder_ + " w1.test user=ann,ben 'user=*' > /dev/null")
                  .c_str()) == 0);
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  TlsFiles of(const std::string& who) const {
    return {folder_ + "/" + who + ".pem", folder_ + "/" + who + ".key", folder_ + "/ca.pem"};
  }

 private:
  std::string folder_;
};

}  // namespace carya::remote
