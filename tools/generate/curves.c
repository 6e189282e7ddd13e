/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves of the models, as bench/model_curves.py prints them. They have to be measured again
 * when a parameter of a model changes.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "generate/curves.h"

/* Of each point: the share in memory; the share of the rows that it serves, and the reads per row
 * of the others; the same for blocks of lists. */
static const struct gen_curve curves[] = {
	{
		.model = "mag240m",
		.scale = 256,
		.batch = 4,
		.rows_per_seed = 168.04,
		.blocks_per_seed = 18.41,
		.points = {
			{ 0.001, 0.0124, 0.9807, 0.0028, 0.8562 },
			{ 0.002, 0.0210, 0.9740, 0.0051, 0.8572 },
			{ 0.005, 0.0419, 0.9741, 0.0123, 0.8593 },
			{ 0.01, 0.0719, 0.9737, 0.0263, 0.8627 },
			{ 0.02, 0.1213, 0.9733, 0.0590, 0.8676 },
			{ 0.05, 0.2386, 0.9710, 0.1518, 0.8476 },
			{ 0.1, 0.3879, 0.9668, 0.2956, 0.8586 },
			{ 0.2, 0.6126, 0.9581, 0.5663, 0.8728 },
			{ 0.3, 0.7665, 0.9457, 0.7505, 0.8827 },
			{ 0.5, 0.9570, 0.8994, 0.9307, 0.8836 },
			{ 0.75, 1.0000, 1.0000, 1.0000, 1.0000 },
		},
	},
	{
		.model = "papers100m",
		.scale = 256,
		.batch = 4,
		.rows_per_seed = 1593.59,
		.blocks_per_seed = 211.76,
		.points = {
			{ 0.001, 0.0114, 0.9190, 0.0049, 0.7586 },
			{ 0.002, 0.0190, 0.9207, 0.0075, 0.7598 },
			{ 0.005, 0.0364, 0.9240, 0.0151, 0.7629 },
			{ 0.01, 0.0602, 0.7852, 0.0266, 0.7675 },
			{ 0.02, 0.0987, 0.7964, 0.0440, 0.7734 },
			{ 0.05, 0.1872, 0.8169, 0.0881, 0.7252 },
			{ 0.1, 0.2983, 0.8390, 0.1517, 0.7408 },
			{ 0.2, 0.4643, 0.8660, 0.2669, 0.7639 },
			{ 0.3, 0.5922, 0.8851, 0.3720, 0.7820 },
			{ 0.5, 0.7806, 0.9157, 0.5721, 0.8125 },
			{ 0.75, 0.9315, 0.9473, 0.8055, 0.8524 },
		},
	},
	{
		.model = "wikikg90m",
		.scale = 256,
		.batch = 4,
		.rows_per_seed = 907.01,
		.blocks_per_seed = 124.94,
		.points = {
			{ 0.001, 0.0116, 0.9489, 0.0025, 0.8459 },
			{ 0.002, 0.0192, 0.9500, 0.0045, 0.8467 },
			{ 0.005, 0.0382, 0.9299, 0.0095, 0.8485 },
			{ 0.01, 0.0633, 0.9336, 0.0166, 0.8505 },
			{ 0.02, 0.1038, 0.9376, 0.0301, 0.8539 },
			{ 0.05, 0.1972, 0.9457, 0.0702, 0.8614 },
			{ 0.1, 0.3134, 0.9534, 0.1310, 0.7888 },
			{ 0.2, 0.4872, 0.9624, 0.2510, 0.8026 },
			{ 0.3, 0.6185, 0.9690, 0.3664, 0.8138 },
			{ 0.5, 0.8048, 0.9786, 0.5871, 0.8355 },
			{ 0.75, 0.9464, 0.9856, 0.8336, 0.8704 },
		},
	},
	{
		.model = "igb",
		.scale = 512,
		.batch = 2,
		.rows_per_seed = 748.68,
		.blocks_per_seed = 196.96,
		.points = {
			{ 0.001, 0.0117, 0.9952, 0.0015, 0.8015 },
			{ 0.002, 0.0193, 0.9953, 0.0029, 0.8020 },
			{ 0.005, 0.0377, 0.9957, 0.0083, 0.8040 },
			{ 0.01, 0.0600, 0.9959, 0.0175, 0.8077 },
			{ 0.02, 0.0968, 0.9961, 0.0336, 0.8128 },
			{ 0.05, 0.1818, 0.9966, 0.0743, 0.7863 },
			{ 0.1, 0.2903, 0.9970, 0.1331, 0.8004 },
			{ 0.2, 0.4532, 0.9976, 0.2387, 0.8209 },
			{ 0.3, 0.5780, 0.9979, 0.3359, 0.8360 },
			{ 0.5, 0.7646, 0.9985, 0.5224, 0.8626 },
			{ 0.75, 0.9227, 0.9989, 0.7603, 0.8958 },
		},
	},
};

#define CURVE_COUNT (sizeof(curves) / sizeof(curves[0]))

const struct gen_curve *gen_curve_find(const char *model)
{
	for (size_t i = 0; i < CURVE_COUNT; i++) {
		if (strcmp(curves[i].model, model) == 0)
			return &curves[i];
	}
	return NULL;
}

static double mix(double low, double high, double part)
{
	return low + (high - low) * part;
}

struct gen_curve_point gen_curve_at(const struct gen_curve *curve, double share)
{
	const struct gen_curve_point *points = curve->points, *last = &points[GEN_CURVE_POINTS - 1];
	struct gen_curve_point low = *points, high = *last;
	double part;
	uint32_t i = 0;

	while (i < GEN_CURVE_POINTS && points[i].share < share)
		i++;
	if (i == 0) {
		/* below the smallest share the hits are proportional to it */
		low.share = low.rows = low.lists = 0;
		high = *points;
		part = share / high.share;
	} else {
		low = points[i - 1];
		if (i < GEN_CURVE_POINTS)
			high = points[i];
		else
			high.share = high.rows = high.lists = 1;
		part = log(share / low.share) / log(high.share / low.share);
	}
	return (struct gen_curve_point){
		.share = share,
		.rows = mix(low.rows, high.rows, part),
		.row_reads = mix(low.row_reads, high.row_reads, part),
		.lists = mix(low.lists, high.lists, part),
		.list_reads = mix(low.list_reads, high.list_reads, part),
	};
}
