/* Runs a SavedModel through TensorFlow's C interface: no Python takes part.
 *
 *   serve FOLDER  (in OPERATION INDEX ROWS COLUMNS)...  (out OPERATION INDEX)...
 *
 * Inputs are float32. Value i of an input is ((i * 37) % 19) / 7 - 1, counted over its rows. Each output is one line of
 * numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#define MOST 16

static void check(const TF_Status* status, const char* what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static TF_Output endpoint(TF_Graph* graph, const char* name, const char* index) {
  TF_Output output = {TF_GraphOperationByName(graph, name), atoi(index)};
  if (output.oper == NULL) {
    fprintf(stderr, "no operation %s\n", name);
    exit(1);
  }
  return output;
}

static TF_Tensor* rows(int64_t num_rows, int64_t columns) {
  const int64_t shape[2] = {num_rows, columns};
  TF_Tensor* tensor = TF_AllocateTensor(TF_FLOAT, shape, 2, sizeof(float) * num_rows * columns);
  float* values = TF_TensorData(tensor);
  for (int64_t i = 0; i < num_rows * columns; i++) values[i] = (float)((i * 37) % 19) / 7 - 1;
  return tensor;
}

int main(int argc, char** argv) {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check(status, "load");

  TF_Output inputs[MOST], outputs[MOST];
  TF_Tensor *given[MOST], *got[MOST] = {NULL};
  int num_inputs = 0, num_outputs = 0;
  for (int i = 2; i < argc;) {
    if (strcmp(argv[i], "in") == 0) {
      given[num_inputs] = rows(atoi(argv[i + 3]), atoi(argv[i + 4]));
      inputs[num_inputs++] = endpoint(graph, argv[i + 1], argv[i + 2]);
      i += 5;
    } else {
      outputs[num_outputs++] = endpoint(graph, argv[i + 1], argv[i + 2]);
      i += 3;
    }
  }
  TF_SessionRun(session, NULL, inputs, given, num_inputs, outputs, got, num_outputs, NULL, 0, NULL, status);
  check(status, "run");

  for (int i = 0; i < num_outputs; i++) {
    const float* values = TF_TensorData(got[i]);
    for (int64_t j = 0; j < TF_TensorElementCount(got[i]); j++) printf("%.9g ", values[j]);
    printf("\n");
  }
  return 0;
}
