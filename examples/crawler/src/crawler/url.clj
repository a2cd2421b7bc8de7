(ns crawler.url
  "Web addresses as the crawler sees them: absolute, normalised, without fragment, or refused by name.

  Pages of the wild hold addresses with blanks, umlauts, stray percent signs and worse.
  `resolve-link` repairs what a browser would repair and names what nobody can repair."
  (:require
   [clojure.string :as str])
  (:import
   (java.net URI URISyntaxException)
   (java.nio.charset StandardCharsets)
   (java.util HexFormat)))

(set! *warn-on-reflection* true)

(def ^:private hex (.withUpperCase (HexFormat/of)))

(defn- percent-encode
  "Returns `text` with each byte of its UTF-8 form written as %XX."
  [^String text]
  (let [bytes (.getBytes text StandardCharsets/UTF_8)]
    (.replaceAll (.formatHex ^HexFormat hex bytes) "(..)" "%$1")))

(def ^:private illegal-in-a-uri
  "Blanks, delimiters, controls, everything outside ASCII, and a percent sign that starts no escape."
  #"[^\x21-\x7E]+|[\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})")

(defn- repair
  "Returns `href` as a browser reads it: trimmed, line breaks dropped, illegal characters escaped."
  [href]
  (-> (str/trim href)
      (str/replace #"[\t\r\n]" "")
      (str/replace #"#.*$" "")
      (str/replace illegal-in-a-uri percent-encode)))

(defn- path-of
  "Returns the path of `uri` without the dots that climb above the root; an empty path is the root."
  [^URI uri]
  (let [path (str/replace (or (.getRawPath uri) "") #"^(/\.\.)+(?=/|$)" "")]
    (if (str/blank? path) "/" path)))

(defn- port-of
  "Returns `uri`'s port as it appears in an address: nothing for the scheme's own port."
  [^URI uri scheme]
  (when-not (#{-1 ({"http" 80 "https" 443} scheme)} (.getPort uri))
    (str ":" (.getPort uri))))

(defn- write-out
  "Returns the one spelling of the absolute `uri` that all its variants share."
  [^URI uri]
  (let [uri    (.normalize uri)
        scheme (str/lower-case (.getScheme uri))
        query  (.getRawQuery uri)]
    (str scheme "://" (str/lower-case (.getHost uri)) (port-of uri scheme)
         (path-of uri) (when query (str "?" query)))))

(defn- web-page?
  "True when `uri` speaks http or https."
  [^URI uri]
  (contains? #{"http" "https"} (some-> (.getScheme uri) str/lower-case)))

(defn- complete?
  "True when `uri` names a host, and a port that exists or none."
  [^URI uri]
  (and (.getHost uri) (<= (.getPort uri) 65535)))

(defn- classify
  "Returns `uri` under the name of what it is: a page's address, one we do not follow, or a bad one."
  [^URI uri text]
  (cond
    (not (.isAbsolute uri)) {:bad text :why "it has no http:// or https://"}
    (not (web-page? uri))   {:ignored text}
    (not (complete? uri))   {:bad text :why "it names no host or no possible port"}
    :else                   {:url (write-out uri)}))

(defn- against
  "Returns the `URI` that `href` means on the page `base`; a lone query belongs to that page, not to its folder."
  ^URI [^String base ^String href]
  (let [base (URI. base)]
    (cond
      (= "" href)                base
      (str/starts-with? href "?") (.resolve base (str (.getRawPath base) href))
      :else                      (.resolve base (URI. href)))))

(defn parse
  "Returns `{:url address}` for the absolute web address `text`, else `{:bad text :why sentence}` or
  `{:ignored text}` (mailto and other things that are no pages). Never throws."
  [text]
  (try
    (classify (URI. (repair text)) text)
    (catch URISyntaxException e
      {:bad text :why (.getReason e)})))

(defn resolve-link
  "Returns what `parse` returns, for a link `href` found on the page `base` (absolute). Never throws.

  Example: (resolve-link \"http://a/b/c.html\" \"../d e.html\") => {:url \"http://a/d%20e.html\"}"
  [base href]
  (try
    (classify (against base (repair href)) href)
    (catch URISyntaxException e
      {:bad href :why (.getReason e)})
    (catch IllegalArgumentException e
      {:bad href :why (ex-message e)})))

(defn host
  "Returns the host of the absolute address `url`."
  [^String url]
  (.getHost (URI. url)))
