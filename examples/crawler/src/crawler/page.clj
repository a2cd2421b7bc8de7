(ns crawler.page
  "HTML, parsed by jsoup as forgivingly as a browser would."
  (:require
   [crawler.url :as url])
  (:import
   (java.io ByteArrayInputStream)
   (java.nio.charset Charset)
   (org.jsoup Jsoup)
   (org.jsoup.nodes Document Element)))

(set! *warn-on-reflection* true)

(defn- charset
  "Returns the name of the charset in `content-type` when this JVM knows it, else nil: jsoup then looks for
  a byte order mark and a meta element."
  [content-type]
  (let [[_ charset] (re-find #"(?i)charset\s*=\s*[\"']?([\w.:-]+)" (str content-type))]
    (try
      (when (and charset (Charset/isSupported charset)) charset)
      (catch IllegalArgumentException _ nil))))

(defn- references
  "Yields what the elements of `document` that lead to other pages refer to."
  [^Document document]
  (for [^Element element (.select document "a[href], area[href], frame[src], iframe[src]")]
    (if (.hasAttr element "href") (.attr element "href") (.attr element "src"))))

(defn- addresses
  "Returns the distinct links of `document` that can be crawled or must be reported as bad."
  [^Document document]
  (->> (references document)
       (map #(url/resolve-link (.baseUri document) %))
       (remove :ignored)
       (distinct)
       (mapv #(select-keys % [:url :bad :why]))))

(defn- facts
  "Returns what the crawler wants to know of a page's `body`."
  [{:keys [^bytes body final-url content-type]}]
  (let [document (Jsoup/parse (ByteArrayInputStream. body) ^String (charset content-type) ^String final-url)
        found    (addresses document)]
    {:title (.title document), :bytes (alength body), :links (count found), :found found}))

(defn parse
  "Returns `outcome` with its `:body` replaced by `:title`, `:bytes`, the number of `:links`, and `:found`: what
  they lead to. A page that cannot be parsed becomes `:unparsable`. Never throws."
  [outcome]
  (if (:body outcome)
    (merge (dissoc outcome :body)
           (try
             (facts outcome)
             (catch Throwable e
               {:outcome :unparsable, :detail (str e)})))
    outcome))
