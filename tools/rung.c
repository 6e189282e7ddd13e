/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "rung/rung.h"
int main(void)
{
	printf("rung %s\n", rung_version());
	return 0;
}
