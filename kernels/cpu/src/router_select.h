// The arithmetic of router.h, once per instruction set.
#pragma once

#include <cfloat>

#include "attention_exp.h"
#include "router.h"

namespace eb {
namespace EB_ISA {

// Replaces what a softmax cannot take; returns the largest logit.
static float clean_logits(float* logits, int experts) {
  float best = -HUGE_VALF;
  for (int e = 0; e < experts; ++e) {
    float value = logits[e];
    if (value != value) value = -HUGE_VALF;
    if (value > FLT_MAX) value = FLT_MAX;
    if (value > best) best = value;
    logits[e] = value;
  }
  if (best != -HUGE_VALF) return best;
  for (int e = 0; e < experts; ++e) logits[e] = 0.0f;
  return 0.0f;
}

// The k largest in falling order, kept sorted while walking through the logits.
static void largest_k(const float* logits, int experts, int k, int32_t* idx) {
  int found = 0;
  for (int e = 0; e < experts; ++e) {
    if (found == k && !(logits[e] > logits[idx[k - 1]])) continue;
    int place = found < k ? found++ : k - 1;
    for (; place > 0 && logits[e] > logits[idx[place - 1]]; --place) idx[place] = idx[place - 1];
    idx[place] = e;
  }
}

// logits -> e^(logit - best); returns their sum, lanes first (expert e in lane e % F32::kLanes).
static float exponentials(float* logits, int experts, float best) {
  const int padded = (experts + F32::kLanes - 1) / F32::kLanes * F32::kLanes;
  for (int e = experts; e < padded; ++e) logits[e] = -HUGE_VALF;
  F32 running = splat(0.0f);
  for (int e = 0; e < padded; e += F32::kLanes) {
    const F32 value = exp_nonpositive(load(logits + e) - splat(best));
    store(logits + e, value);
    running = running + value;
  }
  return sum(running);
}

static void router_select(float* logits, int experts, int k, bool normalise, int32_t* idx, float* weights) {
  const float best = clean_logits(logits, experts);
  largest_k(logits, experts, k, idx);
  float total = exponentials(logits, experts, best);
  if (normalise) {
    total = 0.0f;
    for (int j = 0; j < k; ++j) total += logits[idx[j]];
  }
  for (int j = 0; j < k; ++j) weights[j] = logits[idx[j]] / total;
}

}  // namespace EB_ISA
}  // namespace eb
