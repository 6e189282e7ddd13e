/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curves of the models, as bench/generator/model_curves.py prints them. They have to be
 * measured again when a parameter of a model changes.
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
		.scale = 128,
		.batch = 8,
		.rows_per_seed = 121.71,
		.blocks_per_seed = 50.01,
		.points = {
			{ 0.001, 0.0943, 0.9853, 0.0048, 0.2805 },
			{ 0.002, 0.1101, 0.9857, 0.0086, 0.2799 },
			{ 0.005, 0.1295, 0.9859, 0.0191, 0.2796 },
			{ 0.01, 0.1557, 0.9860, 0.0362, 0.2786 },
			{ 0.02, 0.1994, 0.9859, 0.0716, 0.2776 },
			{ 0.05, 0.3022, 0.9856, 0.1868, 0.2821 },
			{ 0.1, 0.4333, 0.9845, 0.3731, 0.3149 },
			{ 0.2, 0.6172, 0.9869, 0.7033, 0.5584 },
			{ 0.3, 0.7373, 0.9868, 0.8553, 0.8891 },
			{ 0.5, 0.8734, 0.9828, 0.9984, 0.8500 },
			{ 0.75, 0.9670, 0.9848, 1.0000, 1.0000 },
		},
	},
	{
		.model = "papers100m",
		.scale = 256,
		.batch = 4,
		.rows_per_seed = 1099.61,
		.blocks_per_seed = 340.34,
		.points = {
			{ 0.001, 0.0687, 0.7852, 0.0022, 0.4465 },
			{ 0.002, 0.1000, 0.8114, 0.0043, 0.4462 },
			{ 0.005, 0.1432, 0.8435, 0.0130, 0.4459 },
			{ 0.01, 0.1726, 0.8563, 0.0248, 0.4455 },
			{ 0.02, 0.2053, 0.8644, 0.0507, 0.4454 },
			{ 0.05, 0.2806, 0.8780, 0.1231, 0.4490 },
			{ 0.1, 0.3798, 0.8930, 0.2518, 0.4823 },
			{ 0.2, 0.5308, 0.9125, 0.4856, 0.6476 },
			{ 0.3, 0.6465, 0.9278, 0.6097, 0.7845 },
			{ 0.5, 0.8112, 0.9493, 0.7290, 0.8162 },
			{ 0.75, 0.9400, 0.9666, 0.8666, 0.8469 },
		},
	},
	{
		.model = "wikikg90m",
		.scale = 256,
		.batch = 4,
		.rows_per_seed = 497.21,
		.blocks_per_seed = 231.10,
		.points = {
			{ 0.001, 0.1341, 0.8987, 0.0014, 0.3760 },
			{ 0.002, 0.1914, 0.9480, 0.0032, 0.3763 },
			{ 0.005, 0.2304, 0.9620, 0.0082, 0.3769 },
			{ 0.01, 0.2567, 0.9653, 0.0196, 0.3781 },
			{ 0.02, 0.2933, 0.9684, 0.0350, 0.3807 },
			{ 0.05, 0.3701, 0.9728, 0.0892, 0.3931 },
			{ 0.1, 0.4648, 0.9768, 0.1742, 0.4202 },
			{ 0.2, 0.6024, 0.9802, 0.3465, 0.5022 },
			{ 0.3, 0.7026, 0.9814, 0.5172, 0.6436 },
			{ 0.5, 0.8463, 0.9816, 0.6874, 0.7909 },
			{ 0.75, 0.9536, 0.9739, 0.8472, 0.8042 },
		},
	},
	{
		.model = "igb",
		.scale = 512,
		.batch = 2,
		.rows_per_seed = 623.83,
		.blocks_per_seed = 227.55,
		.points = {
			{ 0.001, 0.0528, 0.9893, 0.0022, 0.6169 },
			{ 0.002, 0.0884, 0.9924, 0.0049, 0.6181 },
			{ 0.005, 0.1491, 0.9956, 0.0111, 0.6207 },
			{ 0.01, 0.1946, 0.9966, 0.0211, 0.6250 },
			{ 0.02, 0.2452, 0.9973, 0.0477, 0.6371 },
			{ 0.05, 0.3225, 0.9979, 0.1080, 0.6658 },
			{ 0.1, 0.4062, 0.9981, 0.2047, 0.7192 },
			{ 0.2, 0.5337, 0.9985, 0.3424, 0.8045 },
			{ 0.3, 0.6373, 0.9985, 0.4270, 0.8408 },
			{ 0.5, 0.7962, 0.9985, 0.5712, 0.8684 },
			{ 0.75, 0.9282, 0.9986, 0.7715, 0.8908 },
		},
	},
	{
		.model = "arxiv",
		.scale = 1,
		.batch = 1024,
		.rows_per_seed = 28.41,
		.blocks_per_seed = 7.14,
		.points = {
			{ 0.001, 0.0058, 0.1099, 0.0002, 0.0873 },
			{ 0.002, 0.0116, 0.1105, 0.0005, 0.0873 },
			{ 0.005, 0.0273, 0.1122, 0.0012, 0.0871 },
			{ 0.01, 0.0504, 0.1147, 0.0045, 0.0870 },
			{ 0.02, 0.0924, 0.1195, 0.0082, 0.0869 },
			{ 0.05, 0.2020, 0.1342, 0.0294, 0.0874 },
			{ 0.1, 0.3506, 0.1613, 0.0714, 0.0894 },
			{ 0.2, 0.5546, 0.2223, 0.1390, 0.0905 },
			{ 0.3, 0.6918, 0.2930, 0.2130, 0.0926 },
			{ 0.5, 0.8684, 0.4672, 0.5585, 0.1238 },
			{ 0.75, 0.9763, 0.7756, 0.8378, 0.1785 },
		},
	},
	{
		.model = "debian-docs",
		.scale = 1,
		.batch = 1024,
		.rows_per_seed = 49.12,
		.blocks_per_seed = 21.41,
		.points = {
			{ 0.001, 0.0026, 0.0255, 0.0017, 0.0524 },
			{ 0.002, 0.0052, 0.0255, 0.0030, 0.0525 },
			{ 0.005, 0.0130, 0.0257, 0.0055, 0.0525 },
			{ 0.01, 0.0259, 0.0259, 0.0086, 0.0526 },
			{ 0.02, 0.0507, 0.0264, 0.0142, 0.0525 },
			{ 0.05, 0.1203, 0.0277, 0.0316, 0.0526 },
			{ 0.1, 0.2261, 0.0302, 0.0767, 0.0538 },
			{ 0.2, 0.4121, 0.0363, 0.1908, 0.0572 },
			{ 0.3, 0.5715, 0.0451, 0.3009, 0.0598 },
			{ 0.5, 0.8150, 0.0825, 0.5098, 0.0654 },
			{ 0.75, 0.9700, 0.2780, 0.7377, 0.0698 },
		},
	},
	{
		.model = "debian",
		.scale = 1,
		.batch = 1024,
		.rows_per_seed = 21.63,
		.blocks_per_seed = 4.46,
		.points = {
			{ 0.001, 0.0028, 0.0813, 0.0009, 0.0226 },
			{ 0.002, 0.0057, 0.0815, 0.0014, 0.0226 },
			{ 0.005, 0.0143, 0.0821, 0.0025, 0.0226 },
			{ 0.01, 0.0286, 0.0830, 0.0069, 0.0226 },
			{ 0.02, 0.0566, 0.0850, 0.0135, 0.0227 },
			{ 0.05, 0.1349, 0.0911, 0.0243, 0.0224 },
			{ 0.1, 0.2496, 0.1021, 0.0420, 0.0221 },
			{ 0.2, 0.4353, 0.1277, 0.1344, 0.0221 },
			{ 0.3, 0.5793, 0.1596, 0.2290, 0.0211 },
			{ 0.5, 0.7850, 0.2492, 0.4180, 0.0176 },
			{ 0.75, 0.9423, 0.4363, 0.6724, 0.0134 },
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
