<?php
// Included by LocalSettings.php: what a wiki of the tests has beyond a plain installation.

$wgRightsText = 'CC BY-SA 4.0';
$wgRightsUrl = 'https://creativecommons.org/licenses/by-sa/4.0/';

// Nothing has to survive: without this, 100 pages took 26 s on a busy disk, with it 4 s (2026-11-16).
$wgDBservers = [ [
	'type' => 'sqlite', 'dbname' => $wgDBname, 'dbDirectory' => $wgSQLiteDataDir, 'load' => 1,
	'flags' => DBO_DEFAULT, 'variables' => [ 'synchronous' => 'OFF' ],
] ];
$wgDisableSearchUpdate = true;
$wgParserCacheType = $wgMessageCacheType = CACHE_NONE;

// The extension Disambiguator, as far as page properties go.
$wgExtensionMessagesFiles['TestMagicWords'] = __DIR__ . '/magic_words.php';
$wgHooks['GetDoubleUnderscoreIDs'][] = static function ( &$ids ) {
	$ids[] = 'disambiguation';
};

// Page properties that texts do not tell (Wikibase Client's items), from a file of the wiki's own.
$wgHooks['ParserAfterTidy'][] = static function ( $parser ) {
	$path = dirname( getenv( 'MW_CONFIG_FILE' ) ) . '/properties.json';
	$properties = is_file( $path ) ? json_decode( file_get_contents( $path ), true ) : [];
	$page = $parser->getPage();
	$title = $page ? Title::castFromPageReference( $page )->getPrefixedText() : '';
	foreach ( $properties[$title] ?? [] as $name => $value ) {
		$parser->getOutput()->setPageProperty( $name, $value );
	}
};

// So that a test can have answers cut without pages of megabytes.
if ( isset( $_SERVER['HTTP_X_RESULT_SIZE'] ) ) {
	$wgAPIMaxResultSize = (int)$_SERVER['HTTP_X_RESULT_SIZE'];
}
