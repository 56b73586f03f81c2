#include "loader/control/store_lender.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "io/http/store_client.h"
#include "loader/control/documents.h"

namespace carya::loader {
namespace {

/// The places ("s3://bucket") of all URLs in a source, wherever they stand in it.
void add_places(const nlohmann::json& value, std::set<std::string>& places) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (io::has_scheme(text)) places.emplace(io::place_of(text));
  } else if (value.is_structured()) {
    for (const auto& item : value) add_places(item, places);
  }
}

/// The daemon works in another folder, and follows no links to a file that a client names.
void make_absolute(std::string& path) {
  std::error_code failed;
  if (const auto absolute = std::filesystem::weakly_canonical(path, failed); !path.empty() && !failed)
    path = absolute.string();
}

}  // namespace

Result<std::shared_ptr<const StoreLender>> StoreLender::create(const transforms::Pipeline& pipeline) {
  std::set<std::string> places;
  add_places(nlohmann::json::parse(pipeline.source_json()), places);
  if (places.empty()) return nullptr;
  ASSIGN(const auto client, io::StoreClient::shared());
  const std::shared_ptr<StoreLender> made(new StoreLender());
  made->access_ = client->access();
  for (const std::string& place : places) {
    ASSIGN(io::StoreUrl url, made->access_->parse(place + "/-"));
    const auto same = [&](const io::StoreUrl& other) { return io::account_of(other) == io::account_of(url); };
    if (std::ranges::none_of(made->urls_, same)) made->urls_.push_back(std::move(url));
  }
  return made;
}

std::string StoreLender::lend(bool refused) const {
  LendRequest lent{.terms = access_->terms(), .grants = {}};
  for (io::StoreWay* const way : {&lent.terms.plain, &lent.terms.tls}) make_absolute(way->authority);
  for (const io::StoreUrl& url : urls_)
    if (url.kind != io::StoreKind::kHttp) lent.grants.push_back(access_->lend(url, refused));
  return encode(lent);
}

}  // namespace carya::loader
