/** The cache folder of the tests: images, tools and guest folders, kept between runs. */
export const CACHE = process.env.SANDLOT_CACHE ?? "/var/cache/sandlot";
