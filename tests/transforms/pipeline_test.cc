#include "transforms/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/transforms/samples_test_lib.h"
#include "transforms/op/json.h"

namespace carya::transforms::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kMainJob =
    R"({"op":"decode_image"},{"op":"random_resized_crop","size":[224,224]},{"op":"random_horizontal_flip"},)"
    R"({"op":"normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})";

TEST(Pipeline, WritesEveryParameterInCanonicalOrder) {
  const auto pipeline = pipeline_of(document(kMainJob, R"({"batch_size":128,"drop_last":true})"));
  EXPECT_EQ(
      pipeline->to_json(),
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"views":[],"shuffle":null,"ops":[)"
      R"({"op":"decode_image","mode":"RGB","apply_exif":false,"fields":null},)"
      R"({"op":"random_resized_crop","size":[224,224],"scale":[0.08,1.0],"ratio":[0.75,1.3333333333333333],)"
      R"("interpolation":"bilinear","antialias":true,"extra_interpolation":null},)"
      R"({"op":"random_horizontal_flip","p":0.5},)"
      R"({"op":"normalize","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225],"layout":"CHW","fields":null}],)"
      R"("batch":{"batch_size":128,"global_size":null,"drop_last":true,"pad_last":false}})");
}

TEST(Pipeline, CanonicalTextIsAFixedPoint) {
  const std::vector<std::string> documents = {
      document(kMainJob),
      R"({"version":1,"source":{"type":"files","paths":["ä\"\\\n.jpg"],"labels":[-5],"extra":{"mask":["m.png"]}},)"
      R"("views":[{"view":"subset","indices":[3,1]},{"view":"take","count":7},{"view":"split","fraction":0.9,"part":1}],)"
      R"("shuffle":{},"ops":[{"op":"decode_image","mode":"L"},{"op":"resize","size":[64],"max_size":99},)"
      R"({"op":"pad","padding":[1,2,3,4],"fill":7,"padding_mode":"reflect"},{"op":"random_crop","size":[8,8]}]})",
      R"({"version":1,"source":{"type":"webdataset","tars":["a.tar"]},"ops":[{"op":"decode_image"}]})",
      R"({"version":1,"source":{"type":"ranges","kind":"lmdb","paths":["data.mdb"],"stamps":[100,-5,4240,7],)"
      R"("encoded":["image","mask"],"label":true,"count":3,"arrays":{"places":{"dtype":"uint64","shape":[6],)"
      R"("fingerprint":"00"},"names":{"dtype":"uint8","shape":[4],"fingerprint":"01"}}},"ops":[{"op":"decode_image"}]})",
      R"({"version":1,"source":{"type":"ranges","kind":"npy","paths":["s3://b/x.npy"],"stamps":[100,0,-1,0],)"
      R"("pins":["E1\"a\""],"encoded":["x"],"count":3,"arrays":{"places":{"dtype":"uint64","shape":[3],)"
      R"("fingerprint":"00"},"names":{"dtype":"uint8","shape":[4],"fingerprint":"01"}}}})",
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"records":{"drawn":{"positions":9,"key":18446744073709551615,)"
      R"("fingerprint":"b"},"kept":{"count":5,"fingerprint":"a"}},"ops":[{"op":"decode_image"}]})",
      R"({"version":1,"source":{"type":"image_folder","path":"x"},"records":{"repeated":{"times":2,"within":4,"positions":9}}})",
      document(
          R"({"op":"normalize","mean":1e-5,"std":100000})", "null",
          R"({"type":"arrays","count":5,"arrays":{"image":{"dtype":"uint8","shape":[28,28,1],"fingerprint":"0a"}}})"),
  };
  for (const std::string& text : documents) {
    const auto once = pipeline_of(text);
    const auto twice = pipeline_of(once->to_json());
    EXPECT_EQ(once->to_json(), twice->to_json());
    EXPECT_EQ(once->outputs(), twice->outputs());
    EXPECT_EQ(once->fingerprint(OnError::kRaise), twice->fingerprint(OnError::kRaise));
  }
}

TEST(Pipeline, FingerprintChangesWithWhatDecidesBitsAndWithNothingElse) {
  const auto base = pipeline_of(document(kMainJob))->fingerprint(OnError::kRaise);
  const auto print_of = [](const std::string& text) {
    return pipeline_of(text)->fingerprint(OnError::kRaise);
  };
  EXPECT_EQ(base, print_of(document(kMainJob, R"({"global_size":64})")));
  EXPECT_EQ(base, print_of(document(kMainJob, "null", R"({"type":"image_folder","path":"elsewhere"})")));
  EXPECT_NE(base, pipeline_of(document(kMainJob))->fingerprint(OnError::kMask));
  EXPECT_NE(base, print_of(document(std::string(kMainJob) + R"(,{"op":"to_layout","layout":"HWC"})")));
  std::string other = kMainJob;
  other.replace(other.find("0.485"), 5, "0.486");
  EXPECT_NE(base, print_of(document(other)));
}

TEST(Pipeline, LinesShowShapesAtEachPoint) {
  const auto pipeline = pipeline_of(document(kMainJob));
  const auto& lines = pipeline->lines();
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0].tensors[0].to_string(), "uint8[?]");
  EXPECT_EQ(lines[1].tensors[0].to_string(), "uint8[?, ?, 3]");
  EXPECT_THAT(lines[2].text, HasSubstr("random_resized_crop(size=[224, 224], scale=[0.08, 1.0]"));
  EXPECT_EQ(lines[2].tensors[0].to_string(), "uint8[224, 224, 3]");
  EXPECT_EQ(lines[4].tensors[0].to_string(), "float32[3, 224, 224]");
  EXPECT_EQ(lines[5].text, "batch(2)");
  EXPECT_EQ(lines[5].tensors[0].to_string(), "float32[2, 3, 224, 224]");
  EXPECT_EQ(lines[5].tensors[1].to_string(), "int64[2]");
}

TEST(Pipeline, ShapesFollowTheReference) {
  const auto shape = [](const std::string& ops) {
    return pipeline_of(document(ops, "null",
                                R"({"type":"arrays","count":1,"arrays":{"image":)"
                                R"({"dtype":"uint8","shape":[40,100,3],"fingerprint":""}}})"))
        ->outputs()[0]
        .to_string();
  };
  EXPECT_EQ(shape(R"({"op":"resize","size":[20]})"), "uint8[20, 50, 3]");
  EXPECT_EQ(shape(R"({"op":"resize","size":[20],"max_size":30})"), "uint8[12, 30, 3]");
  EXPECT_EQ(shape(R"({"op":"pad","padding":[1,2,3,4]})"), "uint8[46, 104, 3]");
  EXPECT_EQ(shape(R"({"op":"normalize","mean":[0,0,0],"std":1,"layout":"HWC"})"), "float32[40, 100, 3]");
  EXPECT_EQ(shape(R"({"op":"to_dtype","dtype":"int64"},{"op":"to_layout","layout":"CHW"})"),
            "int64[3, 40, 100]");
}

TEST(Pipeline, ErrorsNameOpParameterGivenAndAllowed) {
  const std::string decode = R"({"op":"decode_image"},)";
  EXPECT_EQ(op_error(decode + R"({"op":"random_crop","size":[0,9]})"),
            "random_crop: size: got [0, 9]; give [height, width], each 1 to 65535");
  EXPECT_EQ(op_error(decode + R"({"op":"random_crop"})"),
            "random_crop: size is missing; give [height, width], each 1 to 65535");
  EXPECT_THAT(op_error(decode + R"({"op":"random_horizontal_flip","p":1.5})"),
              HasSubstr("p: got 1.5; give a number, 0.0 to 1.0"));
  EXPECT_THAT(op_error(decode + R"({"op":"random_horizontal_flip","P":0.5})"),
              HasSubstr("unknown key 'P': got 0.5; give op, p"));
  EXPECT_THAT(op_error(decode + R"({"op":"resize","size":[9],"interpolation":"lanczos","antialias":false})"),
              AllOf(HasSubstr("resize: antialias"), HasSubstr("lanczos")));
  EXPECT_THAT(
      op_error(decode + R"({"op":"resize","size":[9],"antialias":false,"extra_interpolation":"lanczos"})"),
      HasSubstr("resize: antialias"));
  EXPECT_THAT(op_error(decode + R"({"op":"resize","size":[9],"interpolation":"box"})"),
              HasSubstr("got 'box'; give one of"));
  EXPECT_THAT(op_error(decode + R"({"op":"resize","size":[9],"max_size":9})"),
              HasSubstr("more than the shorter side"));
  EXPECT_THAT(op_error(decode + R"({"op":"random_resized_crop","size":[9,9],"scale":[0.9,0.1]})"),
              HasSubstr("scale: got [0.9, 0.1]"));
  EXPECT_THAT(op_error(decode + R"({"op":"normalize","mean":[1,2],"std":[1,2,3]})"),
              HasSubstr("std: got [1, 2, 3]; give as many"));
  EXPECT_THAT(op_error(decode + R"({"op":"normalize","mean":0,"std":0})"), HasSubstr("std: got 0"));
  EXPECT_THAT(op_error(decode + R"({"op":"normalize","mean":[1,2,3,4],"std":1})"),
              HasSubstr("one for each of 3 channels (given 4)"));
  EXPECT_THAT(op_error(decode + R"({"op":"pad","padding":[1,1,1,1],"fill":[1,2,3,4]})"),
              HasSubstr("fill has 4 values"));
  EXPECT_THAT(
      op_error(R"({"op":"blur"})"),
      HasSubstr("unknown op 'blur'; give one of adjust_sharpness, affine, autocontrast, boxes, center_crop"));
  EXPECT_THAT(op_error(R"({"op":"center_crop","size":[9,9]})"),
              HasSubstr("image is still encoded; put decode_image before"));
  EXPECT_THAT(op_error(R"({"op":"normalize","mean":0,"std":1})"), HasSubstr("put decode_image before"));
  EXPECT_THAT(op_error(decode + R"({"op":"decode_image"})"),
              HasSubstr("image is a picture already; call .decode_image() once"));
  EXPECT_THAT(op_error(decode + R"({"op":"normalize","mean":0,"std":1},{"op":"center_crop","size":[9,9]})"),
              HasSubstr("image is float32[3, ?, ?] (CHW); give uint8 HWC images"));
  // Also where the op on values changed nothing: a plan computes those last.
  for (const char* values : {R"({"op":"to_dtype","dtype":"uint8"})", R"({"op":"to_layout","layout":"HWC"})"})
    EXPECT_THAT(op_error(decode + values + R"(,{"op":"center_crop","size":[9,9]})"),
                HasSubstr("image is uint8[?, ?, 3] (HWC) after an op on values; give uint8 HWC images"));
  EXPECT_THAT(op_error(decode + R"({"op":"subtract_mean","mean":1})"),
              HasSubstr("image is uint8[?, ?, 3]; give float32: put to_dtype(\"float32\") before"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype"},{"op":"subtract_mean","mean":[1,2]})"),
              HasSubstr("mean with one number or one for each of 3 channels (given 2)"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype"},{"op":"scale","factor":[1,2]})"),
              HasSubstr("factor with one number or one for each of 3 channels (given 2)"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype"},{"op":"scale"})"),
              HasSubstr("scale: factor is missing"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype","fields":["label"]})"), HasSubstr("no label"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype","fields":["mask"]})"),
              HasSubstr("got 'mask'; give names among image, label"));
  EXPECT_THAT(op_error(decode + R"({"op":"to_dtype","fields":["image","image"]})"), HasSubstr("none twice"));
  EXPECT_THAT(op_error(decode + R"({"op":"center_crop","size":[30,30]},{"op":"random_crop","size":[31,30]})"),
              HasSubstr("or pad_if_needed=True"));
  EXPECT_THAT(
      op_error(
          decode +
          R"({"op":"center_crop","size":[9,9]},{"op":"pad","padding":[9,0,0,0],"padding_mode":"reflect"})"),
      HasSubstr("less than the image's side"));
}

TEST(Pipeline, SeedsHave64Bits) {
  const std::string start = R"({"version":1,"source":{"type":"image_folder","path":"x"},"shuffle":{"seed":)";
  const auto pipeline = pipeline_of(start + "18446744073709551615}}");
  EXPECT_EQ(pipeline->seed(), UINT64_MAX);
  EXPECT_EQ(pipeline_of(pipeline->to_json())->to_json(), pipeline->to_json());
  EXPECT_EQ(pipeline_of(start + "9223372036854775807}}")->seed(), std::uint64_t{INT64_MAX});
  EXPECT_THAT(error_of(start + "18446744073709551616}}"), HasSubstr("shuffle: seed: got "));
  EXPECT_THAT(error_of(start + "-1}}"),
              HasSubstr("seed: got -1; give an integer, 0 to 18446744073709551615"));
}

TEST(Pipeline, RefusesHostileDocuments) {
  EXPECT_THAT(error_of(""), HasSubstr("no JSON at line 1, column "));
  EXPECT_THAT(error_of("[]"), HasSubstr("give an object"));
  EXPECT_THAT(error_of(R"({"version":2,"source":{}})"), HasSubstr("version: got 2; give"));
  EXPECT_THAT(error_of(R"({"version":1,"source":null})"), HasSubstr("source: got None"));
  EXPECT_THAT(error_of(R"({"version":1,"version":1})"), HasSubstr("\"version\" is there twice"));
  EXPECT_THAT(error_of(R"({"version":1e999})"), HasSubstr("no JSON at line 1, column "));
  EXPECT_THAT(error_of(R"({"version":NaN})"), HasSubstr("no JSON at line 1, column "));
  EXPECT_THAT(error_of(R"({"version":18446744073709551615})"),
              HasSubstr("version: got 18446744073709551615; give"));
  EXPECT_THAT(error_of("{\"version\":\"\xff\"}"), HasSubstr("no JSON at line 1, column "));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested over 16 deep"));
  EXPECT_THAT(error_of(std::string(kJsonBytesMax + 1, ' ')), HasSubstr("give at most 67108864 B"));
  std::string keys = "{";
  for (int i = 0; i < 2000; ++i) keys += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_THAT(error_of(keys + "}"), HasSubstr("over 1024 keys"));
  std::string many = R"({"op":"decode_image"})";
  for (int i = 0; i < 64; ++i) many += R"(,{"op":"random_horizontal_flip"})";
  EXPECT_THAT(op_error(many), HasSubstr("at most 64 ops"));
  EXPECT_THAT(op_error(R"("decode_image")"), HasSubstr("an object with the key"));
}

TEST(Pipeline, ChecksSourcesViewsAndBatch) {
  const auto source_error = [](const std::string& source) { return error_of(document("", "null", source)); };
  EXPECT_THAT(source_error(R"({"type":"zip"})"), HasSubstr("give image_folder, files"));
  EXPECT_THAT(source_error(R"({"type":"image_folder"})"), HasSubstr("path is missing"));
  EXPECT_THAT(source_error(R"({"type":"files","paths":["a","b"],"labels":[1]})"),
              HasSubstr("one label for each of 2"));
  EXPECT_THAT(source_error(R"({"type":"files","paths":["a"],"extra":{"mask":[]}})"),
              HasSubstr("(0 entries)"));
  EXPECT_THAT(source_error(R"({"type":"files","paths":["a"],"extra":{"image":["b"]}})"),
              HasSubstr("there twice"));
  EXPECT_THAT(source_error(R"({"type":"files","paths":["a"],"extra":{"a b":["b"]}})"),
              HasSubstr("field name"));
  const auto array = [&](const std::string& dtype, const std::string& shape) {
    return source_error(R"({"type":"arrays","count":1,"arrays":{"x":{"dtype":")" + dtype + R"(","shape":)" +
                        shape + R"(,"fingerprint":""}}})");
  };
  EXPECT_EQ(array("float64", "[]"), "no error");
  EXPECT_THAT(array("complex", "[2]"), HasSubstr("dtype: got 'complex'"));
  EXPECT_THAT(array("uint8", "[0]"), HasSubstr("shape: got [0]"));
  EXPECT_THAT(array("uint8", "[4294967296,4294967296]"), HasSubstr("B per row"));
  EXPECT_THAT(error_of(document("", R"({"batch_size":1,"global_size":2})")), HasSubstr("exactly one of"));
  EXPECT_THAT(error_of(document("", "{}")), HasSubstr("exactly one of"));
  EXPECT_THAT(error_of(document("", R"({"batch_size":1,"drop_last":true,"pad_last":true})")),
              HasSubstr("pad_last"));
  EXPECT_THAT(
      error_of(R"({"version":1,"source":{"type":"image_folder","path":""},"views":[{"view":"skip"}]})"),
      HasSubstr("subset, take or split"));
  const auto chosen = [&](const std::string& records) {
    return error_of(R"({"version":1,"source":{"type":"image_folder","path":""},"records":)" + records + "}");
  };
  EXPECT_EQ(chosen("{}"), "no error");
  EXPECT_THAT(chosen("[]"), HasSubstr("records"));
  EXPECT_THAT(chosen(R"({"dropped":{}})"), HasSubstr("dropped"));
  EXPECT_THAT(chosen(R"({"kept":{"count":0,"fingerprint":""}})"), HasSubstr("records: kept: count: got 0"));
  EXPECT_THAT(chosen(R"({"drawn":{"key":1,"fingerprint":""}})"), HasSubstr("records: drawn: positions"));
  EXPECT_THAT(chosen(R"({"repeated":{"times":2,"within":1099511627777,"positions":1}})"),
              HasSubstr("records: repeated: within"));
}

TEST(Plan, RefusesABatchOfUnknownShapes) {
  const auto compile = [](const std::string& ops) {
    const auto plan = Plan::compile(pipeline_of(document(ops)), {});
    return plan ? std::string("no error") : plan.error().message;
  };
  EXPECT_THAT(compile(R"({"op":"decode_image"})"), HasSubstr("image is uint8[?, ?, 3] after decode_image"));
  EXPECT_THAT(compile(""), HasSubstr("add decode_image"));
  EXPECT_EQ(compile(R"({"op":"decode_image"},{"op":"center_crop","size":[8,8]})"), "no error");
}

}  // namespace
}  // namespace carya::transforms::testing
